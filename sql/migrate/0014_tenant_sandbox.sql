-- name: step_0014_tenant_sandbox
-- tenant.sandbox: the level (toolcrib-run(8)) that processes of this tenant's calls must reach beside what the server and
-- the definition require (SEC S-511); '' = nothing more.
ALTER TABLE tenant ADD COLUMN sandbox TEXT NOT NULL DEFAULT '';
