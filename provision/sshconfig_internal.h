/* Shared by sshconfig.c and sshconfig_read.c: a file as a list of lines. */
#ifndef MUSTER_PROVISION_SSHCONFIG_INTERNAL_H
#define MUSTER_PROVISION_SSHCONFIG_INTERNAL_H

#include "provision/sshconfig.h"

enum sshconfig_op {
    SSHCONFIG_OP_VALUE = 0, /* key and its words */
    SSHCONFIG_OP_HOST,      /* words are patterns */
    SSHCONFIG_OP_MATCH,     /* words are criteria */
    SSHCONFIG_OP_ENTER,     /* an included file begins: its blocks live inside the present one */
    SSHCONFIG_OP_LEAVE,
    SSHCONFIG_OP_RESET /* the next top-level file begins */
};

struct sshconfig_line {
    enum sshconfig_op op;
    enum sshconfig_key key;
    char **words; /* ends in NULL */
};

struct sshconfig {
    struct sshconfig_line *lines;
    size_t count;
    char *home, *local_user;
};

/* Read a file, or text, into c->lines. */
int sshconfig_read_file(struct sshconfig *c, const char *path, bool required, struct err *err);
int sshconfig_read_text(struct sshconfig *c, const char *text, size_t len, struct err *err);
void sshconfig_words_free(char **words);
/* Comma- or blank-separated patterns with * ? and !; without regard to case. */
bool sshconfig_pattern_match(const char *pattern, const char *text);

#endif
