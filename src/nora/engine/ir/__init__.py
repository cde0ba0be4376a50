"""The intermediate representation: spaces, values, operations, edges, changed rows."""
