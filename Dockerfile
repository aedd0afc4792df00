# The course's packages, its grader, and the sandbox in which this runs submissions: for
# one laptop, for a JupyterHub, and for grading. docs/handbook/container.md says how.
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/course
COPY requirements.txt .
# A hub of version 5 starts it by jupyterhub-singleuser; nbgitpuller copies the lessons.
RUN pip install --no-cache-dir -r requirements.txt "jupyterhub>=5,<6" nbgitpuller
COPY . .

# The name and number that JupyterHub's chart for Kubernetes expects.
RUN useradd --create-home --uid 1000 jovyan && chown -R jovyan /opt/course
USER jovyan
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "lessons"]
