"""Interception: functions that do something else for a while, and who asks them to.

Nothing is paid while nothing is intercepted: the functions' own code is replaced, and put back.
"""
