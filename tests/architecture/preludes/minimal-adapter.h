// The snippets of docs/how-to/write-an-adapter.md about adapters/minimal use these names: members of its Solver, and
// arguments of its functions.
#include <linchpin/minimal.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

struct BodyBinding {
  linchpin::BodyId id;
};
extern toy::World& world_;
extern linchpin::host::ConstraintSolver& solver_;
extern linchpin::host::Rows rows_;
extern std::vector<BodyBinding> bodies_;
extern std::vector<const linchpin::host::Response*> responses_;
extern std::vector<int> exact;
extern std::vector<char> touched;
extern toy::Solve& solve;
extern toy::Body body;
extern toy::Joint::Settings joint;
extern linchpin::BodyId id, a, b;
extern linchpin::BodyState out;
extern linchpin::host::Load load;
extern linchpin::host::JointShape shape;
extern double dt, dt_, impulse;
extern int entry, joint_index;
extern unsigned listed_;
extern bool is_integrated_, good, has_changed;
extern std::size_t row;
std::size_t z(int i);
std::string name_of(int joint);
