export type { Report, Run } from './report.ts';
export type { Row, Section } from './summary.ts';
export { metricOf, sectionsOf, spreadText } from './summary.ts';
