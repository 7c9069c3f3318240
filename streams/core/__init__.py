"""The pure core: everything that decides, and nothing that reads a clock, a file, the network or a random number.

`decide(job, command, context)` looks at one job and says which events follow; `apply(job, event)` is the only
thing that changes state, live, in recovery, in audits and in the simulator alike (DESIGN section 5).

Read next: `state` (what a job is), `events` (what can happen to it), `commands` (what can be asked of it).
"""
