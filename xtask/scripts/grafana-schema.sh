#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Checks the dashboards in packaging/prometheus against the types of a dashboard that Grafana publishes for
# programs that write dashboards, the npm package @grafana/schema: grafana-schema.sh
#
# The compiler of TypeScript checks each dashboard as a value of the type `Dashboard`, and each panel of the type
# timeseries as one with its own options: unknown keys, missing keys and wrong types are errors. The queries are not
# checked, because the package has no type for those of Prometheus; prometheus.sh runs them. So that the check
# itself is known to work, three damaged dashboards must fail. Needs npm and the network; the packages are installed
# in a temporary folder, and none of their scripts is run.
set -euo pipefail
umask 022
cd "$(dirname "$0")/../.."
folder=$PWD/packaging/prometheus

schema=13.2.3
typescript=5.9.3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo '{"private": true}' >package.json
npm install --ignore-scripts --no-audit --no-fund --legacy-peer-deps --silent \
	"@grafana/schema@$schema" "typescript@$typescript"

# Writes a module in which the JSON of standard input is a dashboard.
module() { # NAME
	cat >"$1.ts" <<-END
		import type { Dashboard, Panel, GraphFieldConfig } from '@grafana/schema';
		type TimeSeries = Panel & {
		  type: 'timeseries';
		  fieldConfig: { defaults: { custom?: GraphFieldConfig } };
		};
		type Checked = Omit<Dashboard, 'panels'> & { panels: Array<TimeSeries> };
		export const dashboard: Dashboard & Checked = $(cat);
	END
}
check() {
	npx --no-install tsc --noEmit --strict --skipLibCheck --module nodenext --moduleResolution nodenext "$@"
}

checked=0
for dashboard in "$folder"/*.json; do
	name=$(basename "$dashboard" .json)
	module "$name" <"$dashboard"
	check "$name.ts"
	checked=$((checked + 1))
done
[ $checked -ge 2 ] || { echo "grafana-schema: expected two dashboards, found $checked" >&2; exit 1; }

# a wrong type, an unknown key, and a key that a panel must have
for damage in 's/"h": 8/"h": "8"/' 's/"refresh"/"refersh"/' 's/"type": "timeseries"/"kind": "timeseries"/'; do
	sed "$damage" "$folder/pagewise-machine.json" | module damaged
	if check damaged.ts >/dev/null; then
		echo "grafana-schema: a dashboard damaged by $damage was accepted" >&2
		exit 1
	fi
done
echo "$checked dashboards agree with @grafana/schema $schema; 3 damaged ones do not"
