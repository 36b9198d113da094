/* The signed report: build, verify, cut into slices for the gate.  contracts.md, section 10.
 *
 * Reads no clock and no state: times, serial and parent are given.  Files are read only by
 * report_verify(), below the evidence directory that it is told. */
#ifndef MUSTER_VALIDATE_REPORT_H
#define MUSTER_VALIDATE_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash.h"
#include "validate/evidence_set.h"
#include "validate/sign.h"

#define REPORT_PREDICATE "urn:muster:readiness:v1"
#define REPORT_STATEMENT "https://in-toto.io/Statement/v1"

enum { REPORT_MAX_BYTES = 512 * 1024 * 1024, REPORT_FUTURE_MS = 5 * 60 * 1000 };

struct report_input {
    const json_t *verdict;   /* section 9 */
    const json_t *site;      /* section 3 */
    const json_t *facts;     /* object NODE -> facts; identity is taken from there */
    const json_t *configs;   /* object NODE -> manifest (config.json) or null; may be NULL */
    const json_t *node_keys; /* object NODE -> base64 public key or null */
    const struct evidence_set *evidence;
    const json_t *agents; /* object: hash of the agent binary -> array of nodes; may be NULL */
    const char *muster_version; /* "muster 0.1.0" */
    int64_t serial;             /* > 0, above every earlier one of this cluster */
    const char *parent;         /* hash of the parent report's payload in hex, or NULL */
    int64_t issued_ms, expires_ms;
    bool simulated; /* made with stand-ins for hardware: the gate refuses it */
};

/* The envelope for report.dsse.json, and the slices (object NODE -> slice).  Both are new
 * references, set only on success.  ERR_DATA the input contradicts itself; ERR_USAGE no key;
 * ERR_ENV libcrypto. */
int report_build(const struct report_input *input, struct sign_key *const keys[], size_t key_count,
                 json_t **envelope, json_t **slices, struct err *err);
/* Canonical text with a newline, written atomically with mode 0644. */
int report_save(const char *path, const json_t *envelope_or_slice, struct err *err);

struct report_expect {
    const struct sign_public *trusted; /* keys that may sign */
    size_t trusted_count;
    const char *cluster, *run; /* NULL: any */
    int64_t min_serial;        /* lowest acceptable, 0: any */
    int64_t now_ms;            /* 0: time is not checked */
    const char *evidence_dir;  /* NULL: evidence files are not checked */
    bool allow_simulated;
};

/* Verify the bytes of a report file.  ERR_DATA says which check failed: form, signature, Merkle
 * root, a node dropped or changed, evidence swapped, cluster, run, serial, expiry, issued in the
 * future; ERR_ENV an evidence file cannot be read.  *statement (may be NULL) is the verified
 * payload. */
int report_verify(const char *text, size_t len, const struct report_expect *expect,
                  json_t **statement, struct err *err);

/* Hash of the envelope's payload in hex: what the next report names as parent.  -1, ERR_DATA. */
int report_payload_hash(const json_t *envelope, char out[static HASH_HEX_BYTES], struct err *err);
/* Digest of a manifest's items (contracts.md, section 6).  -1 when it has no array of items. */
int report_config_digest(const json_t *manifest, char out[static HASH_HEX_BYTES]);

#endif
