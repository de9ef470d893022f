import type { FlowScenario } from './flow-stage.ts';
import { added, counted, crashedBetween, lastFails, takenOver } from './flow-scenarios.ts';
import type { SqlBug } from './sql.ts';

export interface FlowBug {
  readonly name: string;
  readonly scenario: FlowScenario;
  /** Begin of the problem that the judge must report. */
  readonly finds: string;
  readonly sql: SqlBug;
  /** Additional SQL of the migration with the mistake. */
  readonly before?: string;
}

/** The five bugs of the specification of flows. */
export const flowBugs: readonly FlowBug[] = [
  {
    name: 'a probe before the count',
    scenario: counted,
    finds: 'stuck',
    sql: {
      function: 'judge_steps(uuid[],uuid[],pgqueue.step_ref[],boolean)',
      edits: [
        {
          from: 'c.done + c.failed + c.other >= c.added',
          to: '(select s.done + s.failed + s.other >= s.added from flow_step s where s.flow = c.flow and s.step = c.step)',
        },
      ],
    },
  },
  {
    name: 'an advance without the epoch',
    scenario: takenOver,
    finds: 'moved by an old leader',
    sql: {
      function: 'advance_flows(text,bigint,jsonb)',
      edits: [{ from: 'perform assert_leader(p_leader, p_epoch);', to: '' }],
    },
  },
  {
    name: 'an addition without the token',
    scenario: added,
    finds: 'added by an attempt without its lease',
    sql: {
      function: 'add_jobs(uuid,uuid,jsonb,boolean)',
      edits: [{ from: 'and w.lock_token = p_token for update', to: 'and w.lock_key is not null for update' }],
    },
  },
  {
    // the process dies before that transaction
    name: 'a tally in another transaction',
    scenario: crashedBetween,
    finds: 'wrong outcome',
    before: 'create table pgqueue.tally_to_be_written (like pgqueue.flow_tally including all)',
    sql: {
      function: 'note_ends(pgqueue.flow_end[])',
      edits: [{ from: 'insert into flow_tally', to: 'insert into tally_to_be_written' }],
    },
  },
  {
    name: 'an outcome from tallies that were read before the probe',
    scenario: lastFails,
    finds: 'wrong outcome',
    sql: {
      function: 'judge_steps(uuid[],uuid[],pgqueue.step_ref[],boolean)',
      edits: [
        { from: '\nbegin\n', to: '\nbegin\n  perform count_tallies(p_tallied);\n' },
        { from: 'where t.flow = any (p_tallied) and', to: 'where false and' },
      ],
    },
  },
];
