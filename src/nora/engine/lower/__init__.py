"""From traced operations and modules to the operations of the engine."""
