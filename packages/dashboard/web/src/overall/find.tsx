import { Button, Group, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import { useEffect, useState } from 'react';
import { useLocation, useParams } from 'wouter';
import { hrefOf } from '../api/mount.ts';
import { useFound } from '../api/queries.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { Page } from '../ui/frame/page.tsx';
import { JobId, To } from '../ui/text.tsx';

/** A field for the id of a job or a flow, wherever it is. */
export function Find(): ReactNode {
  const [, go] = useLocation();
  const [id, setId] = useState('');
  return (
    <Group
      component="form"
      gap="xs"
      role="search"
      aria-label="Find a job or a flow"
      onSubmit={(event) => {
        event.preventDefault();
        if (id.trim() !== '') go(`/jobs/${encodeURIComponent(id.trim())}`);
      }}
    >
      <TextInput
        data-filter
        w={300}
        maw="100%"
        aria-label="Id of a job or a flow"
        placeholder="Id of a job or a flow"
        value={id}
        spellCheck={false}
        autoComplete="off"
        onChange={({ currentTarget }) => setId(currentTarget.value)}
      />
      <Button type="submit" variant="default">
        Find
      </Button>
    </Group>
  );
}

/** Finds a job or a flow, and opens its page in its installation. */
export function FindPage(): ReactNode {
  const { id } = useParams<{ id: string }>();
  const query = useFound(id);
  const found = query.data?.found ?? undefined;
  useEffect(() => {
    // in place of this page, so that "back" leads to where the viewer came from
    if (found !== undefined) location.replace(hrefOf(found.installation, `${found.kind}s/${id}`));
  }, [found, id]);
  return (
    <Page title="Find" heading={<>Find {<JobId id={id} />}</>} actions={<Find />}>
      <Answer query={query} rows={3}>
        {({ found: place, unreachable }) =>
          place === null ? (
            <>
              {unreachable.length > 0 && (
                <p role="status">It may be in {unreachable.join(', ')}: no answer from there.</p>
              )}
              <Empty title="No installation that answers knows it">
                <To to="/">Go to all installations</To>
              </Empty>
            </>
          ) : (
            <p role="status">It is in {place.installation}.</p>
          )
        }
      </Answer>
    </Page>
  );
}
