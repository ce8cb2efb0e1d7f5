"""The AI SDK's `useChat`: a chat is a conversation.

A message of the assistant is what a message or an answer led to.
"""
