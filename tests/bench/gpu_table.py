#!/usr/bin/env python3
"""Print the evidence of gpu_device.sh: one line per record with its median and spread."""
import glob
import json
import os
import statistics
import sys

SCALE = {"B/s": (1e9, "GB/s"), "B": (2**30, "GiB")}

for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.jsonl"))):
    print("==", os.path.basename(path))
    for line in open(path, encoding="utf-8"):
        event = json.loads(line)
        if event.get("event") != "evidence":
            continue
        record = json.loads(event["line"])
        samples = record["samples"]
        factor, unit = SCALE.get(record["unit"], (1, record["unit"]))
        name = f'{record["subject"]:26} {record["quantity"]:26}'
        if record["outcome"] != "measured":
            print(f'{name} {record["outcome"]}: {record["cause"]} {record["reason"]}')
            continue
        median = statistics.median(samples) / factor
        text = f"{median:.6g} {unit}"
        if len(samples) > 1:
            text += f" ({min(samples) / factor:.6g} to {max(samples) / factor:.6g}, {len(samples)})"
        brief = {k: v for k, v in record["conditions"].items() if k not in ("lines",)}
        print(name, text, json.dumps(brief), json.dumps(record["proof"])[:160])
