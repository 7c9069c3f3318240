"""The audit: reads the topics of a finished run and proves, or disproves, what was promised (DESIGN section 15).

`log_view` holds the records, `kafka_reader` fetches them, `stories` arranges history by job and run, `oracle`
says which occurrences a definition asks for, and `checker.check` judges. Nothing in here shares code with what
it judges, except the codec, the event types and, for I11 alone, `apply`.
"""
