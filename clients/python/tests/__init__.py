"""Tests of the client, run by test/integration/clients/python.test.ts, which has a database and a scheduler."""
