"""The AI SDK's `useChat`: a chat is a conversation, and a message of the assistant is what a message or an answer led to."""
