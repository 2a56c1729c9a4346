"""What the command can do; each verb is a thin function over the store."""

from scrapy_redis_state.commands.verbs.crawls import add as add_crawls
from scrapy_redis_state.commands.verbs.dead import add as add_dead
from scrapy_redis_state.commands.verbs.delete import add as add_delete
from scrapy_redis_state.commands.verbs.doctor import add as add_doctor
from scrapy_redis_state.commands.verbs.drain import add as add_drain
from scrapy_redis_state.commands.verbs.export import add as add_export
from scrapy_redis_state.commands.verbs.exporter import add as add_exporter
from scrapy_redis_state.commands.verbs.forget import add as add_forget
from scrapy_redis_state.commands.verbs.import_ import add as add_import
from scrapy_redis_state.commands.verbs.pause import add as add_pause
from scrapy_redis_state.commands.verbs.peek import add as add_peek
from scrapy_redis_state.commands.verbs.prioritize import add as add_prioritize
from scrapy_redis_state.commands.verbs.push import add as add_push
from scrapy_redis_state.commands.verbs.reset import add as add_reset
from scrapy_redis_state.commands.verbs.session import add as add_session
from scrapy_redis_state.commands.verbs.status import add as add_status
from scrapy_redis_state.commands.verbs.watch import add as add_watch

ADD_VERBS = (
    add_status,
    add_watch,
    add_crawls,
    add_peek,
    add_push,
    add_prioritize,
    add_forget,
    add_pause,
    add_drain,
    add_reset,
    add_delete,
    add_export,
    add_import,
    add_dead,
    add_session,
    add_doctor,
    add_exporter,
)
"""In the order of the help."""
