#include "bare_worker.h"

#include "messages.h"

#include <stdexcept>

namespace linchpin::cli {

WorkerAnswer run_bare_as_worker(const scene::Model& model, const Simulation& simulation, const std::string& csv,
                                const recording::RecordingOptions* record) {
  WorkerAnswer answer;
  try {
    answer.row = run_bare(model, simulation, csv, record);
    answer.kind = WorkerAnswer::Kind::row;
  } catch (const std::invalid_argument& e) {
    answer.kind = WorkerAnswer::Kind::refused;
    answer.message = said(e);
  } catch (const std::runtime_error& e) {
    answer.kind = WorkerAnswer::Kind::csv;
    answer.message = e.what();
  }
  return answer;
}

}  // namespace linchpin::cli
