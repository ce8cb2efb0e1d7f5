"""Encrypt what runs store, with keys of a ring.

The package decides how a payload is sealed, which key of the ring a run's payloads get, and what becomes of those whose key is
lost or was erased. It may import the converter's codec, storage, contracts and `cryptography`, which is loaded on first use.
Begin with `codec.py`; `sealed.py` has the format, `ring_file.py` what `sojourn keyring` writes, `key_ring.py` how it is read.

```python
from sojourn.crypto import KeyRing, SealingCodec

client = await Client.connect(codec=SealingCodec(KeyRing("keyring.json")))
```
"""

from sojourn.crypto.codec import SealingCodec
from sojourn.crypto.key_ring import KeyRefusedError, KeyRing, KeyService

__all__ = ["KeyRefusedError", "KeyRing", "KeyService", "SealingCodec"]
