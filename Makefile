# A thin shell over `python -m tools …`, which needs no make (Windows: use it directly).
# make course PROFILE=standard WORKERS=4 PYTHON=python3.12

PYTHON ?= python3
options = $(if $(PROFILE),--profile $(PROFILE)) $(if $(WORKERS),--workers $(WORKERS))

.PHONY: help setup course test lab site clean
help:
	@echo "make course   environment, every notebook executed (PROFILE=quick), website built"
	@echo "make test     environment, full test suite"
	@echo "make lab      JupyterLab with the course's kernel"
	@echo "make site     the website from notebooks already executed"
	@echo "make setup    the environment only"
	@echo "make clean    remove what was built (ALL=1: the environment too)"
	@echo "options:      PROFILE=smoke|quick|standard|full  WORKERS=n  PYTHON=python3.12"

setup lab:
	@$(PYTHON) -m tools $@
course:
	@$(PYTHON) -m tools course $(options)
test:
	@$(PYTHON) -m tools test $(if $(WORKERS),--workers $(WORKERS))
site:
	@$(PYTHON) -m tools site $(if $(PROFILE),--profile $(PROFILE))
clean:
	@$(PYTHON) -m tools clean $(if $(ALL),--all)
