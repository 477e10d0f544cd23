// One worker process per run: `linchpin` links no physics engine, and what a file or a diverging solver does to a
// process stays in that process.
#pragma once

#include "simulation_options.h"
#include "solver_spec.h"

#include <nlohmann/json.hpp>

#include <string>

namespace linchpin::cli {

using Json = nlohmann::ordered_json;

struct WorkerAnswer {
  enum class Kind {
    row,      ///< `row` holds the answer
    scene,    ///< the scene cannot be loaded
    toml,     ///< likewise; the message says itself where
    refused,  ///< this solver cannot run this scene
    csv,      ///< the file to write cannot be written
    died,     ///< the process ended without an answer, after loading
    missing   ///< there is no worker to start
  };
  Kind kind = Kind::missing;
  Json row;
  std::string message;
};

/// The engine that a worker process links.
enum class Engine { bullet, bullet_float64, mujoco };

/// Where a program that the command starts is; empty where it is not, and `looked` names the places.
std::string find_worker(const std::string& name, std::string& looked);

/// How a process ended without an answer, from waitpid's status, in words.
std::string ending(int status);

/// The job (worker_common/job.h) that runs a simulation under a solver.
Json job_for(const Simulation& simulation, const SolverSpec& solver);

/// Runs one job. Shows how far it is on stderr when that is a terminal, under `title`.
WorkerAnswer run_worker(Engine engine, const Json& job, const std::string& title);

}  // namespace linchpin::cli
