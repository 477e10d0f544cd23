// What `sweep --mpi` needs of MPI, as a module of its own: the command itself depends on no MPI, and looks for this one
// only when it is asked for (ranks.cpp).
#include "ranks.h"

#include <mpi.h>

#include <vector>

namespace {

using linchpin::cli::RankCalls;

void start(int* rank, int* size) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
}
void send(int to, const char* data, int size) { MPI_Send(data, size, MPI_CHAR, to, 0, MPI_COMM_WORLD); }
// A negative `from` is any.
int probe(int from, int wait, int* source) {
  MPI_Status status;
  int there = 1, size = 0;
  const int who = from < 0 ? MPI_ANY_SOURCE : from;
  if (wait)
    MPI_Probe(who, 0, MPI_COMM_WORLD, &status);
  else
    MPI_Iprobe(who, 0, MPI_COMM_WORLD, &there, &status);
  if (!there) return -1;
  MPI_Get_count(&status, MPI_CHAR, &size);
  *source = status.MPI_SOURCE;
  return size;
}
void receive(int from, char* data, int size) {
  MPI_Recv(data, size, MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
void finish() { MPI_Finalize(); }
void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

}  // namespace

extern "C" const RankCalls linchpin_ranks;
extern "C" const RankCalls linchpin_ranks = {start, send, probe, receive, finish, abort_all};
