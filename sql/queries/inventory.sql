-- Statements on the inventory (src/inventory/inventory.c).  tenant_id 0: of the store.

-- name: inventory_list
-- takes: int text int
-- inventory list, export and review due: of one tenant or of all (?1 NULL), of one risk or of any (?2 NULL), of which a review is
-- due up to a time or not (?3 NULL).  Walk of the table.
SELECT subject, owner, contact, purpose, risk, data, oversight, review_days, reviewed_us, reviewed_by, note, due_us, set_us, set_by
FROM inventory_text WHERE (?1 IS NULL OR tenant_id = ?1) AND (?2 IS NULL OR risk = ?2) AND (?3 IS NULL OR due_us <= ?3)
ORDER BY CASE WHEN ?3 IS NULL THEN 0 ELSE due_us END, subject;

-- name: inventory_missing
-- takes: int text
-- inventory list --missing: subjects of one tenant or of all (?1 NULL) of which something is not said.  Walk of the subjects.
SELECT s.subject, i.owner, i.contact, i.purpose, i.risk, i.data, i.oversight, i.review_days, i.reviewed_us, i.reviewed_by, i.note,
  NULL, i.set_us, i.set_by
FROM (SELECT 1 AS kind, id, id AS tenant_id, 'tenant:' || name AS subject FROM tenant WHERE state <> 3
  UNION ALL SELECT 2, p.id, p.tenant_id, 'principal:' || t.name || '/' || p.name
    FROM principal p JOIN tenant t ON t.id = p.tenant_id WHERE t.state <> 3
  UNION ALL SELECT 3, id, 0, CASE WHEN substr(name, 1, 7) = 'prompt:' OR substr(name, 1, 9) = 'resource:' THEN name ELSE 'tool:' || name END
    FROM tool WHERE state <> 3
  UNION ALL SELECT 4, id, 0, 'upstream:' || name FROM upstream WHERE state <> 3
  UNION ALL SELECT 5, y.id, y.tenant_id, 'system:' || t.name || '/' || y.name
    FROM system y JOIN tenant t ON t.id = y.tenant_id WHERE y.state < 3 AND t.state <> 3) s
LEFT JOIN inventory i ON i.subject_kind = s.kind AND i.subject_id = s.id
WHERE (?1 IS NULL OR s.tenant_id = ?1) AND (?2 IS NULL OR i.risk = ?2)
  AND (i.owner IS NULL OR i.purpose IS NULL OR i.risk IS NULL) ORDER BY s.subject;

-- name: inventory_report_systems
-- takes: int
-- inventory report: AI systems of one tenant or of all (?1 NULL), and what is said of them.  Walk of the table.
SELECT t.name || '/' || s.name AS system, s.provider AS provider, s.model AS model, s.version AS version, s.role AS role,
  i.owner AS owner, i.contact AS contact, i.purpose AS purpose, i.risk AS risk, i.data AS data,
  (SELECT count(*) FROM principal p WHERE p.tenant_id = s.tenant_id AND p.system_id = s.id) AS principals
FROM system s JOIN tenant t ON t.id = s.tenant_id
LEFT JOIN inventory i ON i.subject_kind = 5 AND i.subject_id = s.id AND i.tenant_id = s.tenant_id
WHERE s.state < 3 AND t.state <> 3 AND (?1 IS NULL OR s.tenant_id = ?1) ORDER BY t.name, s.name;

-- name: inventory_report_risks
-- takes: int
-- inventory report: of one tenant or of all (?1 NULL), the riskiest first.  Walk of the table.
SELECT subject, risk, owner, purpose, data FROM inventory_text WHERE risk IS NOT NULL AND (?1 IS NULL OR tenant_id = ?1)
ORDER BY CASE risk WHEN 'prohibited' THEN 0 WHEN 'high' THEN 1 WHEN 'limited' THEN 2 ELSE 3 END, subject;

-- name: inventory_report_oversight
-- takes: int
-- inventory report: of one tenant or of all (?1 NULL).  Walk of the table.
SELECT subject, oversight, CASE WHEN review_days IS NULL THEN NULL ELSE review_days || ' days' END AS "review every",
  strftime('%Y-%m-%d', reviewed_us / 1000000, 'unixepoch') AS reviewed, reviewed_by AS "by",
  strftime('%Y-%m-%d', due_us / 1000000, 'unixepoch') AS due
FROM inventory_text WHERE (oversight IS NOT NULL OR review_days IS NOT NULL) AND (?1 IS NULL OR tenant_id = ?1) ORDER BY subject;

-- name: inventory_report_logs
-- takes: int
-- inventory report: the log of one tenant or all of them (?1 NULL), and for how long it is kept by the period in force; six months
-- are 183 days.  Walk of the table; primary key of retention.
SELECT coalesce(t.name, 'the system') AS "log of", h.size - l.min_idx AS records, l.min_idx AS "pruned before",
  r.min_days AS "kept for days", r.max_days AS "pruned after days",
  CASE WHEN r.min_days >= 183 THEN 'yes' WHEN r.min_days IS NULL THEN 'no period: until somebody prunes' ELSE 'no' END AS "six months"
FROM log l JOIN head h ON h.log = l.id LEFT JOIN tenant t ON t.id = l.tenant_id
LEFT JOIN retention r ON r.log = l.id AND r.set_by = (SELECT max(x.set_by) FROM retention x WHERE x.log = l.id)
WHERE (?1 IS NULL OR l.tenant_id = ?1) ORDER BY t.name;

-- name: inventory_report_incidents
-- takes: int
-- inventory report: the newest alerts of one tenant or of all (?1 NULL), of which the server keeps so many.  Walk of the table.
SELECT strftime('%Y-%m-%dT%H:%M:%SZ', a.first_us / 1000000, 'unixepoch') AS since, a.rule AS rule, a.subject AS subject, t.name AS tenant,
  a.count AS times, CASE a.state WHEN 0 THEN 'open' WHEN 1 THEN 'acknowledged' ELSE 'over' END AS state, a.acked_by AS "by", a.note AS note
FROM alert a LEFT JOIN tenant t ON t.id = a.tenant_id WHERE (?1 IS NULL OR a.tenant_id = ?1) ORDER BY a.id DESC LIMIT 1000;

-- name: inventory_report_third
-- takes: int
-- inventory report: what comes from others, of one tenant or of all (?1 NULL): servers whose tools are hosted, providers of systems.
-- Walk of both tables.
SELECT 'upstream:' || u.name AS subject, u.server AS provider, i.owner AS owner, i.risk AS risk, i.data AS data
FROM upstream u LEFT JOIN inventory i ON i.subject_kind = 4 AND i.subject_id = u.id AND i.tenant_id = 0
WHERE u.state <> 3 AND ?1 IS NULL
UNION ALL SELECT 'system:' || t.name || '/' || s.name, s.provider, i.owner, i.risk, i.data
FROM system s JOIN tenant t ON t.id = s.tenant_id
LEFT JOIN inventory i ON i.subject_kind = 5 AND i.subject_id = s.id AND i.tenant_id = s.tenant_id
WHERE s.state < 3 AND t.state <> 3 AND s.provider IS NOT NULL AND (?1 IS NULL OR s.tenant_id = ?1) ORDER BY subject;

-- name: inventory_report_missing
-- takes: int
-- inventory report: subjects of one tenant or of all (?1 NULL) of which owner, purpose or risk is not said.  Walk of the subjects.
SELECT s.subject AS subject, CASE WHEN i.owner IS NULL THEN 'no' ELSE 'yes' END AS owner,
  CASE WHEN i.purpose IS NULL THEN 'no' ELSE 'yes' END AS purpose, CASE WHEN i.risk IS NULL THEN 'no' ELSE 'yes' END AS risk
FROM (SELECT 3 AS kind, id, 0 AS tenant_id, CASE WHEN substr(name, 1, 7) = 'prompt:' OR substr(name, 1, 9) = 'resource:' THEN name
    ELSE 'tool:' || name END AS subject FROM tool WHERE state <> 3
  UNION ALL SELECT 4, id, 0, 'upstream:' || name FROM upstream WHERE state <> 3
  UNION ALL SELECT 5, y.id, y.tenant_id, 'system:' || t.name || '/' || y.name FROM system y JOIN tenant t ON t.id = y.tenant_id
    WHERE y.state < 3 AND t.state <> 3) s
LEFT JOIN inventory i ON i.subject_kind = s.kind AND i.subject_id = s.id AND i.tenant_id = s.tenant_id
WHERE (?1 IS NULL OR s.tenant_id = ?1) AND (i.owner IS NULL OR i.purpose IS NULL OR i.risk IS NULL) ORDER BY s.subject;

-- name: inventory_get
-- takes: int int int
-- inventory set and show, review done.  UNIQUE(subject_kind, subject_id).
SELECT subject, owner, contact, purpose, risk, data, oversight, review_days, reviewed_us, reviewed_by, note, due_us, set_us, set_by,
  version, made_by FROM inventory_text WHERE subject_kind = ?1 AND subject_id = ?2 AND tenant_id = ?3;

-- name: inventory_put
-- takes: int int int text text text text text text int int text int
-- inventory set.  UNIQUE(subject_kind, subject_id).
INSERT INTO inventory(subject_kind, subject_id, tenant_id, owner, contact, purpose, risk, data, oversight, review_days, since_us,
  set_us, set_by, seen_version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12, ?13)
ON CONFLICT(subject_kind, subject_id) DO UPDATE SET owner = ?4, contact = ?5, purpose = ?6, risk = ?7, data = ?8, oversight = ?9,
  since_us = CASE WHEN inventory.review_days IS NULL THEN ?11 ELSE inventory.since_us END, review_days = ?10, set_us = ?11, set_by = ?12;

-- name: inventory_reviewed
-- takes: int int int int text text int
-- review done.  UNIQUE(subject_kind, subject_id).
UPDATE inventory SET reviewed_us = ?4, reviewed_by = ?5, note = ?6, seen_version = ?7
WHERE subject_kind = ?1 AND subject_id = ?2 AND tenant_id = ?3;

-- any tenant: tools belong to the store.
-- name: inventory_prohibited
-- takes: int
-- tool_check_allowed(): UNIQUE(subject_kind, subject_id).
SELECT 1 FROM inventory WHERE subject_kind = 3 AND subject_id = ?1 AND risk = 'prohibited';

-- any tenant: alerts about reviews are of each tenant that has such.
-- name: inventory_overdue
-- takes: int int
-- read_reviews(): reviews that were due at ?1, by tenant; the first of each.  Walk of the table.
SELECT i.tenant_id, coalesce(t.name, 'server'), count(*), min(i.due_us) FROM inventory_text i
LEFT JOIN tenant t ON t.id = i.tenant_id WHERE i.due_us <= ?1 GROUP BY i.tenant_id
-- only: pgsql
, t.name
-- only: all
ORDER BY min(i.due_us) LIMIT ?2;

-- name: system_find
-- takes: int text
-- system commands, principal set, inventory set: by name; removed ones are not found.  Index system_name.
SELECT id, name, provider, model, version, role, created_us FROM system WHERE tenant_id = ?1 AND name = ?2 AND state < 3;

-- name: system_list
-- takes: int text
-- system list: of one tenant or of all (?1 NULL).  Walk of the table.
SELECT s.id, s.name, s.provider, s.model, s.version, s.role, s.created_us, t.name, i.owner, i.risk,
  (SELECT count(*) FROM principal p WHERE p.system_id = s.id)
FROM system s JOIN tenant t ON t.id = s.tenant_id
LEFT JOIN inventory i ON i.subject_kind = 5 AND i.subject_id = s.id AND i.tenant_id = s.tenant_id
WHERE s.state < 3 AND t.state <> 3 AND (?1 IS NULL OR s.tenant_id = ?1) AND (?2 IS NULL OR s.name = ?2) ORDER BY t.name, s.name;

-- name: system_count
-- takes: int
-- system add.  Index system_name.
SELECT count(*) FROM system WHERE tenant_id = ?1 AND state < 3;

-- name: system_insert
-- takes: int text text text text text int
-- system add.
INSERT INTO system(tenant_id, name, provider, model, version, role, state, created_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7);

-- name: system_update
-- takes: int int text text text text int
-- system set and remove.  Primary key.
UPDATE system SET provider = ?3, model = ?4, version = ?5, role = ?6, state = ?7 WHERE id = ?1 AND tenant_id = ?2;

-- name: system_set_principal
-- takes: int int int
-- principal set --system.  Primary key.
UPDATE principal SET system_id = ?3 WHERE tenant_id = ?1 AND id = ?2;

-- name: system_unset_principals
-- takes: int int
-- system remove.  Index principal_system.
UPDATE principal SET system_id = NULL WHERE tenant_id = ?1 AND system_id = ?2;
