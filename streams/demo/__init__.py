"""`horologd demo`: the whole of Horolog on this machine, on show, from an empty directory to the checker's verdict.

It starts a Kafka, two schedulers, a gateway and a worker as processes of their own, and talks to them as a user
would: over HTTP, over Kafka and through the `horolog` command. `show` is the play, `processes` the stage hands,
`jobs` what is registered, `journal` what the worker wrote down, `screen` what people see, `verdict` the judgement.
"""
