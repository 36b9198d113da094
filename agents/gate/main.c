/* muster-gate: is this node ready, by the newest signed report and by what it is now? */
#include "agents/gate/gate_main.h"

int main(int argc, char **argv)
{
    return gate_main(argc, argv);
}
