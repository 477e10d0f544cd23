// The equation of Udwadia and Kalaba as a function of arrays. linchpin/equation.py checks the arguments and gives names
// to the results.
#include "arrays.h"
#include "module.h"

#include <linchpin/problem.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

using IndexArgument = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<int> indices(const IndexArgument& v) { return {v.data(), v.data() + v.size()}; }

// The names of constraints are their indices.
std::vector<int> indices(const std::vector<std::string>& names) {
  std::vector<int> out;
  for (const std::string& name : names) out.push_back(std::stoi(name));
  return out;
}

// Arguments are checked in Python: shapes, ranges of indices, finite numbers.
nb::dict solve_arrays(const IndexArgument& block_sizes, const VectorArgument& mass, const VectorArgument& Q,
                      const VectorArgument& c, const VectorArgument& values, const IndexArgument& columns,
                      const IndexArgument& row_start, const VectorArgument& b, const IndexArgument& groups,
                      int group_count, const std::string& backend, double rank_tolerance,
                      double consistency_tolerance) {
  ConstrainedProblem problem;
  problem.block_sizes = indices(block_sizes);
  problem.mass = numbers(mass);
  problem.Q = numbers(Q);
  problem.c = numbers(c);
  for (std::size_t i = 0; i < values.size(); ++i)
    problem.entries.push_back({static_cast<int>(columns.data()[i]), values.data()[i]});
  problem.row_start = indices(row_start);
  problem.b = numbers(b);
  problem.row_constraint = indices(groups);
  for (int i = 0; i < group_count; ++i) problem.constraints.push_back(std::to_string(i));
  SolveOptions options;
  options.backend = backend == "dense" ? Backend::dense : backend == "sparse" ? Backend::sparse : Backend::automatic;
  options.rank_tolerance = rank_tolerance;
  options.consistency_tolerance = consistency_tolerance;
  Acceleration result;
  {
    const nb::gil_scoped_release release;
    result = solve(problem, options);
  }
  if (result.status == Status::invalid) throw std::invalid_argument(result.reason);
  nb::dict out;
  out["status"] = to_string(result.status);
  out["acceleration"] = new_vector(result.vdot);
  out["ideal_force"] = new_vector(result.ideal);
  out["nonideal_force"] = new_vector(result.nonideal);
  out["multipliers"] = new_vector(result.lambda);
  out["rank"] = result.rank;
  out["residual"] = result.residual;
  out["redundant"] = indices(result.redundant);
  out["contradictory"] = indices(result.contradictory);
  out["undetermined"] = indices(result.undetermined);
  out["backend"] = to_string(result.backend);
  return out;
}

}  // namespace

void add_solve(nb::module_& m) {
  m.def("solve_arrays", &solve_arrays, nb::arg("block_sizes"), nb::arg("mass"), nb::arg("Q"), nb::arg("c"),
        nb::arg("values"), nb::arg("columns"), nb::arg("row_start"), nb::arg("b"), nb::arg("groups"),
        nb::arg("group_count"), nb::arg("backend"), nb::arg("rank_tolerance"), nb::arg("consistency_tolerance"),
        "Solves one problem in the form of linchpin::ConstrainedProblem. Use linchpin.solve().");
}

}  // namespace linchpin::python
