from .awaits import Await as Await
from .ids import ToolId as ToolId
from .memory import SessionMemory as SessionMemory
from .memory import WithMemory as WithMemory
from .plan import Finalize as Finalize
from .run import (
    ForkChange as ForkChange,
)
from .run import (
    ForkedFrom as ForkedFrom,
)
from .run import (
    RunInput as RunInput,
)
from .run import (
    Safeguards as Safeguards,
)
from .run import (
    ScheduleStatus as ScheduleStatus,
)
from .taint import FromOutside as FromOutside
from .tool_call import Approval as Approval
from .tool_call import ArgumentReading as ArgumentReading
from .tool_call import ToolInput as ToolInput
from .tool_result import (
    Artifact as Artifact,
)
from .tool_result import (
    Bounds as Bounds,
)
from .tool_result import (
    RunLink as RunLink,
)
from .tool_result import (
    ToolTelemetry as ToolTelemetry,
)
from .tool_spec import Annotations as Annotations
from .tool_spec import ToolSpec as ToolSpec
from .tool_spec import TypeSpec as TypeSpec
