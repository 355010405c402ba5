"""The page on operations, taken literally on a machine that is made for it."""
