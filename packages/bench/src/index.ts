export type { Report, Run } from './report/report.ts';
export type { Row, Section } from './report/summary.ts';
export { metricOf, sectionsOf, spreadText } from './report/summary.ts';
