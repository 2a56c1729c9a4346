"""A project of two spiders, for the command inside of one."""
