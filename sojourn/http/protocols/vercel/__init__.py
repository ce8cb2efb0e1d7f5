"""The protocol of the AI SDK's `useChat`, in which a chat is a conversation.

A message of the assistant is the reply to a message or an answer.
"""
