/* ibnetdiscover's text output, line by line.  Internal to cable_plan.c. */
#ifndef MUSTER_FABRIC_SUBNET_CABLE_PARSE_H
#define MUSTER_FABRIC_SUBNET_CABLE_PARSE_H

#include "fabric/subnet/cable_plan.h"

struct cable_parse {
    char *node;         /* id of the record that is being read */
    struct cable *seen; /* each link as often as it stands in the text */
    size_t count;
    struct {
        char *id, *description;
    } * names;
    size_t name_count;
};

int cable_parse_line(struct cable_parse *p, const char *text, unsigned line, const char *source,
                     struct err *err);
/* Moves the links, each once, into plan. */
int cable_parse_end(struct cable_parse *p, struct cable_plan *plan, struct err *err);
void cable_parse_release(struct cable_parse *p);

#endif
