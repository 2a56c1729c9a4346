"""Query parameters that tell where a visitor came from and never change a page."""

from __future__ import annotations

from typing import NamedTuple


class Tracking(NamedTuple):
    """Parameters of one origin."""

    names: tuple[str, ...]
    """Exact names, or globs; upper and lower case differ."""
    origin: str
    """Who adds them to links."""
    source: str
    """Where that is documented."""


TRACKING: tuple[Tracking, ...] = (
    Tracking(
        ("utm_*",),
        "Google Analytics and many others",
        "https://support.google.com/analytics/answer/10917952",
    ),
    Tracking(
        ("gclid",), "Google Ads", "https://support.google.com/google-ads/answer/3095550"
    ),
    Tracking(
        ("gclsrc",),
        "Google Search Ads 360",
        "https://support.google.com/searchads/answer/6292795",
    ),
    Tracking(
        ("gad_source", "gad_campaignid"),
        "Google Ads",
        "https://support.google.com/google-ads/answer/16193746",
    ),
    Tracking(
        ("gbraid", "wbraid"),
        "Google Ads (apps)",
        "https://www.simoahava.com/analytics/common-mistakes-click-identifiers",
    ),
    Tracking(
        ("dclid",),
        "Google Display & Video 360",
        "https://github.com/brave/brave-browser/issues/9879",
    ),
    Tracking(
        ("srsltid",),
        "Google Merchant Center",
        "https://support.google.com/merchants/answer/15191080",
    ),
    Tracking(
        ("_gl",),
        "Google Analytics (links between sites)",
        "https://github.com/brave/brave-browser/issues/33188",
    ),
    Tracking(
        ("fbclid",),
        "Facebook, Instagram",
        "https://developers.facebook.com/docs/marketing-api/conversions-api/parameters/fbp-and-fbc",
    ),
    Tracking(
        ("msclkid",),
        "Microsoft Advertising",
        "https://help.ads.microsoft.com/apex/index/3/en/60125",
    ),
    Tracking(("twclid",), "X", "https://github.com/brave/brave-browser/issues/18020"),
    Tracking(
        ("ttclid",), "TikTok", "https://ads.tiktok.com/help/article/tiktok-click-id"
    ),
    Tracking(
        ("li_fat_id", "ScCid", "epik"),
        "LinkedIn, Snapchat, Pinterest",
        "https://docs.dataflysignal.com/identity/click-ids",
    ),
    Tracking(
        ("yclid", "_openstat"),
        "Yandex Direct",
        "https://yandex.com/support/direct/statistics/url-tags.html",
    ),
    Tracking(
        ("ysclid", "ymclid"),
        "Yandex",
        "https://github.com/brave/brave-browser/issues/33216",
    ),
    Tracking(
        ("irclickid",), "Impact", "https://github.com/brave/brave-browser/issues/33952"
    ),
    Tracking(
        (
            "mtm_campaign",
            "mtm_cid",
            "mtm_content",
            "mtm_group",
            "mtm_keyword",
            "mtm_medium",
            "mtm_placement",
            "mtm_source",
        ),
        "Matomo",
        "https://matomo.org/faq/reports/advanced-how-to-manually-build-campaign-tracking-urls",
    ),
    Tracking(
        ("mc_cid", "mc_eid"),
        "Mailchimp",
        "http://kb.mailchimp.com/integrations/other-integrations/about-ecommerce360",
    ),
    Tracking(
        ("_hsenc", "__hsfp", "__hssc", "__hstc", "hsCtaTracking"),
        "HubSpot",
        "https://github.com/brave/brave-browser/issues/9019",
    ),
    Tracking(("_hsmi",), "HubSpot", "https://linkclean.app/trackers/hsmi/"),
    Tracking(
        ("_kx",), "Klaviyo", "https://github.com/brave/brave-browser/issues/34578"
    ),
    Tracking(
        ("ml_subscriber", "ml_subscriber_hash"),
        "MailerLite",
        "https://github.com/brave/brave-browser/issues/17507",
    ),
    Tracking(
        ("oly_anon_id", "oly_enc_id"),
        "Omeda",
        "https://github.com/brave/brave-browser/issues/13644",
    ),
    Tracking(
        ("vero_conv", "vero_id"),
        "Vero",
        "https://github.com/brave/brave-browser/issues/11817",
    ),
    Tracking(
        ("wickedid",),
        "Wicked Reports",
        "https://github.com/brave/brave-browser/issues/13647",
    ),
    Tracking(
        ("dm_i",),
        "dotdigital",
        "https://support.dotdigital.com/hc/en-gb/articles/360006551019-Link-tracking",
    ),
)
"""What ``"tracking"`` stands for.

Only what a vendor, or a browser that drops it for all its users, says to be an id of a
click, a campaign or a recipient. Left out on purpose: short or common names (``ref``,
``cid``, ``s``), names that mean something on some sites (``mkt_tok`` opens the page to
unsubscribe, ``igshid``), ids of sessions. A change needs a new version of the rules.
"""

TRACKING_NAMES: tuple[str, ...] = tuple(
    name for tracking in TRACKING for name in tracking.names
)
