"""A worker whose runs go on in new executions after a few events."""

from traced_app import app

import workflows.history_budget

workflows.history_budget.CONTINUE_EVENTS = 30

app.serve()
