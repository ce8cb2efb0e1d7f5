"""Who of a tenant's runs may work now.

`ledger.py` is the state of one tenant. `workflows/tenant_ledger.py` makes it durable, and
`sojourn/serving/quota_broker.py` of each worker asks it. Imports contracts only.
"""
