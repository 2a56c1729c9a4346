"""The protocol as plain Python: the executable specification of the store.

``server`` is the server's side, ``worker`` the least client that keeps the promises,
``fsck`` what must hold between two calls, and ``world`` runs several workers over a
small site while things go wrong.
"""
