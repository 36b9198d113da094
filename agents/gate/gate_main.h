/* The gate as a program: muster-gate calls it, and muster-agent when it is called by that name, so
 * that a node needs no second upload.  Exit status: 0 ready, 1 not ready, 2 cannot tell. */
#ifndef MUSTER_AGENTS_GATE_GATE_MAIN_H
#define MUSTER_AGENTS_GATE_GATE_MAIN_H

int gate_main(int argc, char **argv);

#endif
