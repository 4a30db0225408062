// Submissions as a program in TypeScript writes them, with the types that openapi-typescript makes.
// It is compiled and not run: scripts/generated-clients.
import type { components, operations } from "./api";

type Schemas = components["schemas"];

const submission: Schemas["Submission"] = { command: ["make", "test"] };
const typed: Schemas["Submission"] = {
  type: "sync-tickets",
  params: { origin: "a" },
  retry: { max_attempts: 5 },
  resources: { memory_mb: 2048 },
};
const batch: Schemas["Batch"] = { jobs: [submission, typed] };
const reason: operations["cancelJob"]["requestBody"] = {
  content: { "application/json": { reason: "not needed" } },
};

// Answers always have what has a default in a request.
type Submitted = operations["submitJob"]["responses"][202]["content"]["application/json"];
const attempts = (job: Submitted): number => job.retry.max_attempts;

// @ts-expect-error - there is no such field
const misspelt: Schemas["Submission"] = { comand: ["make"] };

export { attempts, batch, misspelt, reason };
