// The snippets of docs/how-to/write-an-adapter.md about the core alone use these names: one set of constraints in a
// host's step.
#include <linchpin/projection.h>

#include <string>
#include <vector>

extern linchpin::System model;
extern linchpin::Dynamics dynamics;
extern linchpin::State start, base, end;
extern std::vector<double> Q, Q_with_host, e, lambda, force, dv, v, lambda_sum, force_sum, lambda_of_step;
extern std::vector<linchpin::Reaction> reactions;
extern double dt, tolerance;
void leave_to_host(const std::string& why);
void take_substeps();
