#!/bin/sh
# @kubernetes/client-node writes a plain Date as the renewTime of a Lease with three digits of a second; the API takes six.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder" --silent --no-audit --no-fund --ignore-scripts @kubernetes/client-node@1.4.0
cat > "$folder/times.mjs" <<'JS'
import { readFileSync } from "node:fs";
import { dumpYaml, V1MicroTime } from "@kubernetes/client-node";

const folder = new URL("node_modules/@kubernetes/client-node/package.json", import.meta.url);
console.log("@kubernetes/client-node", JSON.parse(readFileSync(folder)).version, "node", process.version);
console.log("expected: a Date becomes a MicroTime, 2026-01-02T03:04:05.678000Z, as V1LeaseSpec declares renewTime");
const moment = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
const text = (time) => {
  const spec = { holderIdentity: "me", renewTime: time };
  const lease = dumpYaml({ apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "l" }, spec });
  return lease.match(/renewTime: '?([^'\s]+)/)[1];
};
const plain = text(new Date(moment));
const micro = text(new V1MicroTime(moment));
console.log(`seen:     ${plain}, which an API server answers with 400; new V1MicroTime(...) gives ${micro}`);
if (plain !== "2026-01-02T03:04:05.678Z" || micro !== "2026-01-02T03:04:05.678000Z") process.exit(1);
JS
node "$folder/times.mjs"
