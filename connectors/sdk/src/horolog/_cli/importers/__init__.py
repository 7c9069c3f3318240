"""What others' schedules say in Horolog's words: pure translations of crontabs and Kubernetes CronJobs.

A translation never changes a meaning in silence: every difference of dialect is a `Remark` with its place.
"""
