"""Operations behind the command line: studies by name, health checks, repair, removal and reports."""
