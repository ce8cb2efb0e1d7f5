"""Serve agents as models of OpenAI's API.

The endpoints are `models`, `chat/completions` and `responses`. Begin at `routes.py`. `chat.py` and
`responses.py` write the responses, `request.py` reads the requests.
"""
