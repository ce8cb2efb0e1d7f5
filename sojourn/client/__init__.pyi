from .session import SessionTurn as SessionTurn
