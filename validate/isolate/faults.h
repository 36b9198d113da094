/* Catalogue of planted faults: where each may be, and what it does to measurements. */
#ifndef MUSTER_VALIDATE_ISOLATE_FAULTS_H
#define MUSTER_VALIDATE_ISOLATE_FAULTS_H

#include "validate/isolate/screen.h"
#include "validate/isolate/sim.h"

enum faults_site {
    FAULTS_HOST,
    FAULTS_HOST_SILENT,
    FAULTS_GPU,
    FAULTS_PCIE,
    FAULTS_NIC,
    FAULTS_NVSWITCH,
    FAULTS_LEAF,
    FAULTS_UPPER,
    FAULTS_CABLE, /* NIC to leaf */
    FAULTS_CABLE_OUT,
    FAULTS_CABLE_IN,
    FAULTS_UPLINK, /* between switches */
    FAULTS_UPLINK_ONEWAY,
    FAULTS_SLOT,     /* PCIe switch to NIC */
    FAULTS_GPU_SLOT, /* GPU to PCIe switch */
    FAULTS_ROOT,     /* PCIe switch to host */
    FAULTS_NVLINK,
    FAULTS_PAIR_MET, /* a pair that the screen measures */
    FAULTS_PAIR_ANY,
    FAULTS_RAIL_SWAP,
    FAULTS_TWO_CABLES,
    FAULTS_TWO_UPLINKS,
    FAULTS_CABLE_AND_UPLINK
};

struct faults_row {
    const char *id, *planted, *shows;
    enum faults_site site;
    struct sim_fault effect; /* where.part is set, where.element is not */
};

size_t faults_count(void);
const struct faults_row *faults_at(size_t i);
const struct faults_row *faults_find(const char *id);

/* Draw a place and give the faults to plant (1 or 2) in out.  Switch cables are drawn among those
 * that the screen exercises.  Returns how many; 0 when this fabric has no such place (NVLink with
 * one rail, an upper switch in a single leaf). */
size_t faults_place(const struct faults_row *row, const struct fabric_graph *g,
                    const struct screen *screen, struct rng *rng, struct sim_fault out[2]);

#endif
