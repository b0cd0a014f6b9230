"""Formats of other libraries: what each can hold, how it is written, and how it is read again."""
