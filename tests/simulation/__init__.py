"""Both planes in one process, in a simulated world, under faults that a seed picks.

* :mod:`~tests.simulation.world`: time, the disk, the trace, and who is there.
* :mod:`~tests.simulation.data_side`, :mod:`~tests.simulation.control_side`: the real planes,
  started, stopped, killed.
* :mod:`~tests.simulation.link`: the network between them.
* :mod:`~tests.simulation.provider`: the providers, which count what they answered.
* :mod:`~tests.simulation.bill`: what must be in the ledger, told by everybody else.
* :mod:`~tests.simulation.story`: one run, from its seed to its rest.
* :mod:`~tests.simulation.judge`: the last questions.

``python -m tests.simulation --seed 123`` plays one again and shows what happened;
``make soak`` plays as many as one likes.
"""
