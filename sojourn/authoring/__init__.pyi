from .agent import AgentToolset as AgentToolset
from .app_checks import DefinitionWarning as DefinitionWarning
from .sources import Interceptor as Interceptor
from .shape import Transform as Transform
from .sources import Executor as Executor
from .tool import ArtifactKind as ArtifactKind
from .tool import Tool as Tool
