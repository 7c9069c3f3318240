"""The seeded simulation: real owners, shards and transactions on a virtual clock and an in-memory Kafka.

Everything random comes from one seed, and only one thing runs at a time, so a failing run is one number (set
PYTHONHASHSEED=0 to repeat it). `virtual_time` runs processes that can be frozen and killed, `memory_broker` is the log with
its transactions and its group, `memory_client` stands in for librdkafka, `actors` are gateways, workers and clients, and
`scenario` puts them together, does the faults, heals, and hands the log to `streams.audit.checker`.
"""
