-- name: step_0005_hosted
-- Prompts, resources and resource templates beside tools.  They are rows of tool, under full names that carry their
-- kind: 'prompt:greet', 'resource:readme' (templates too).  A tool's name has no colon, so the names of the kinds
-- never meet, and a grant's glob speaks of the kind that stands in front of it.

-- tool_version.kind: 1 tool, 2 prompt, 3 resource, 4 resource template.
-- tool_version.uri: the URI of a resource, the URI template of a template; NULL for the others.
ALTER TABLE tool_version ADD COLUMN kind INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tool_version ADD COLUMN uri TEXT;

-- tenant.prompt_…, resource_…: what generation and list_digest are for tools, for prompts and for resources with
-- their templates.  32 zero bytes: the digest of an empty list.
ALTER TABLE tenant ADD COLUMN prompt_generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenant ADD COLUMN prompt_digest BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000';
ALTER TABLE tenant ADD COLUMN resource_generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenant ADD COLUMN resource_digest BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000';
