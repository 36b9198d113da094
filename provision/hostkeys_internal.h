/* Shared by hostkeys.c and hostkeys_append.c: one line and how its names match. */
#ifndef MUSTER_PROVISION_HOSTKEYS_INTERNAL_H
#define MUSTER_PROVISION_HOSTKEYS_INTERNAL_H

#include "provision/hostkeys.h"

/* Read one line (not NUL-terminated).  False for comments, blank and malformed lines. */
bool hostkeys_read_line(const char *text, size_t len, struct hostkeys_entry *entry);
void hostkeys_entry_release(struct hostkeys_entry *entry);
/* True when the first field covers the name as hostkeys_host_name() gives it. */
bool hostkeys_hosts_match(const char *hosts, const char *name);
/* True when the base64 text is a key blob of this type. */
bool hostkeys_key_valid(const char *type, const char *base64);

#endif
