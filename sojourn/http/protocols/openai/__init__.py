"""OpenAI: agents as models, for clients of its API: `models`, `chat/completions` and `responses`.

Begin at `routes.py`; `chat.py` and `responses.py` write what is sent, `request.py` reads what comes.
"""
